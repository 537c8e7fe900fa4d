"""`step` in a terminal: steps, both sources, the operands of the instruction, and a line for commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import Footer, Input, OptionList, Static

from pypto_build.artifact import ArtifactError
from pypto_build.diagnose.step.script import run_command
from pypto_build.diagnose.step.session import KernelStep, Session, Stepped
from pypto_build.diagnose.step.text import difference_lines, operand_lines, where_lines, without_types

#: Lines of a source above and below the one that is executed, and in a terminal of fewer than ``_LOW`` lines. There the
#: step and what a command printed share one place.
_AROUND, _AROUND_IF_LOW, _LOW = 4, 1, 32

#: In a terminal of fewer columns the steps stand above the rest.
_NARROW = 110


class StepApp(App[None]):
    """Shows a session in a terminal. `shown` is the output of the last command."""

    CSS = """
    #steps { width: 45%; height: 100%; border-right: solid $primary; text-wrap: nowrap; text-overflow: ellipsis; }
    #shown { text-wrap: nowrap; text-overflow: ellipsis; }
    #source, #where { height: auto; max-height: 14; padding: 0 1; border-bottom: solid $primary; }
    #shown { padding: 0 1; }
    .narrow { layout: vertical; }
    .narrow #steps { width: 100%; height: 5; border-right: none; }
    .low #command { height: 1; border: none; }
    .low #where { border-bottom: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "command('next')", "next"),
        Binding("b", "command('back')", "back"),
        Binding("w", "command('wrong')", "first wrong"),
        Binding("d", "command('print dst')", "result"),
        Binding("t", "command('tiles')", "tiles"),
        Binding("s", "command('scalars')", "scalars"),
        Binding("f", "command('flags')", "flags"),
        Binding("p", "command('pipes')", "pipes"),
        Binding("colon", "ask", "command"),
        Binding("escape", "leave", "steps", show=False),
        Binding("q", "quit", "quit"),
    ]

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        self.shown: list[str] = []
        self._listed: object = None

    def compose(self) -> ComposeResult:
        """Steps at the left, all else at the right."""
        with Horizontal():
            yield OptionList(id="steps")
            with Vertical():
                yield Static(id="source")
                yield Static(id="where")
                with VerticalScroll():
                    yield Static(id="shown")
        yield Input(placeholder="a command, such as print v17[0:4, 0:8]; help lists them", id="command")
        yield Footer()

    def on_mount(self) -> None:
        """Show the current step."""
        call = self.session.now.call
        self.title = f"task {self.session.recording.task} {call.kernel}"
        self.refresh_all()
        self.query_one("#steps").focus()

    def on_resize(self) -> None:
        """Fit the layout and the sources to the terminal."""
        self.query_one(Horizontal).set_class(self.size.width < _NARROW, "narrow")
        self.screen.set_class(self.size.height < _LOW, "low")
        self.call_after_refresh(self.refresh_all)

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """Move to the step under the cursor."""
        if event.option_index != self.session.at:
            self.session.at = event.option_index
            self.shown = []
            self.refresh_all()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Execute the typed command."""
        event.input.value = ""
        if event.value.strip():
            self.action_command(event.value.strip())

    def action_ask(self) -> None:
        """Go to the line for commands."""
        self.query_one("#command").focus()

    def action_leave(self) -> None:
        """Go back to the steps."""
        self.query_one("#steps").focus()

    def action_command(self, command: str) -> None:
        """Do a command; moves show themselves."""
        try:
            self.shown = list(run_command(self.session, command))
        except ArtifactError as error:
            self.shown = [str(error)]
        self.refresh_all()

    def refresh_all(self) -> None:
        """Redraw everything for the current step."""
        now, step = self.session.now, self.session.step
        steps = self.query_one("#steps", OptionList)
        if self._listed is not now:
            self._listed = now
            steps.clear_options()
            steps.add_options([Text(_short(now, one), no_wrap=True) for one in now.steps])
        steps.highlighted = self.session.at
        is_low = self.size.height < _LOW
        around = _AROUND_IF_LOW if is_low else _AROUND
        own = step.line if step.path == now.own_path else 0
        source = [f"{step.path}:{step.line}", *_around(now.source, own, around)]
        if step.pto_line:
            near = _around(now.module, step.pto_line, int(not is_low), without_types if is_low else str)
            source += [f"{now.call.module}:{step.pto_line}", *near]
        box = self.query_one("#source", Static)
        width = box.content_size.width or self.size.width
        shown = [line if line.startswith(">") or len(line) <= width else f"{line[: width - 1]}…" for line in source]
        box.update(Text("\n".join(shown), overflow="fold"))
        has_moved = self.shown in ([], list(where_lines(self.session)))
        where = self.query_one("#where", Static)
        where.display = has_moved or not is_low
        facts = [*difference_lines(self.session), *operand_lines(self.session)]
        where.update(Text("\n".join(facts), overflow="fold"))
        shown = [] if has_moved and is_low else self.shown
        self.query_one("#shown", Static).update(Text("\n".join(shown), no_wrap=True))


def _short(now: Stepped, step: KernelStep) -> str:
    """A step in a column."""
    wrong = now.differs(step)
    mark = f"  {wrong} differ" if wrong else ""
    pipe = getattr(step.event, "pipe", "")
    return f"{step.number:<4} {step.label:<16}{pipe:<5}{step.line:>5}{mark}  {now.text(step)}"


def _around(lines: list[str], line: int, around: int, short: Callable[[str], str] = str) -> list[str]:
    """The lines of a source around one, which is marked; ``short`` takes away what does not fit."""
    first, last = max(line - around, 1), min(line + around, len(lines))
    numbers = range(first, last + 1) if line else range(0)
    texts = {number: short(lines[number - 1]).strip()[:200] for number in numbers}
    return [f"{'>' if number == line else ' '}{number:>5} {text}" for number, text in texts.items()]
