"""Real servers on the loopback address, for tests that kill them: redis, nginx, distcc's daemons."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

_NGINX = """
daemon off;
pid {place}/nginx.pid;
error_log {place}/error.log;
events {{ worker_connections 64; }}
http {{
    access_log {place}/access.log;
    client_body_temp_path {place}/body;
    proxy_temp_path {place}/proxy;
    fastcgi_temp_path {place}/fastcgi;
    uwsgi_temp_path {place}/uwsgi;
    scgi_temp_path {place}/scgi;
    server {{
        listen 127.0.0.1:{port};
        root {place}/kept;
        location / {{ client_max_body_size 1g; create_full_put_path on; dav_methods PUT; }}
    }}
}}
"""


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


class RealServer:
    """A program that serves at ``url``; ``program`` has to be installed."""

    def __init__(self, program: str, directory: Path, url: str, command: Callable[[int], list[str]]) -> None:
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
        self.port = free_port()
        self.url = url.format(port=self.port)
        self._command, self._directory = command(self.port), directory
        self.start()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        with (self._directory / "server.log").open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, start_new_session=True)
        deadline = time.monotonic() + 60
        while not self._answers():
            assert self._process.poll() is None and time.monotonic() < deadline, self._directory
            time.sleep(0.02)

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True

    def kill(self) -> None:
        """End it, and what it has started, at once."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


def redis(directory: Path) -> RealServer:
    """Keeps nothing when it is killed."""
    words = ["redis-server", "--bind", "127.0.0.1", "--save", "", "--dir", str(directory), "--port"]
    return RealServer("redis-server", directory, "redis://127.0.0.1:{port}/0", lambda port: [*words, str(port)])


def nginx(directory: Path) -> RealServer:
    """With its WebDAV module, as docs/dev/sharing.md has it."""

    def command(port: int) -> list[str]:
        (directory / "kept").mkdir(exist_ok=True, mode=0o777)
        (directory / "kept").chmod(0o777)
        user = "user root;\n"  # takes effect for root alone
        (directory / "nginx.conf").write_text(user + _NGINX.format(place=directory, port=port))
        return ["nginx", "-c", str(directory / "nginx.conf"), "-p", str(directory)]

    return RealServer("nginx", directory, "http://127.0.0.1:{port}/store", command)


def distccd(directory: Path) -> RealServer:
    """A daemon of distcc's that compiles for this machine."""
    words = ["distccd", "--no-detach", "--daemon", "--allow", "127.0.0.1", "--listen", "127.0.0.1", "--jobs", "2"]
    words += ["--enable-tcp-insecure", "--log-stderr", "--log-level", "info"]  # any compiler, which is this machine's

    return RealServer("distccd", directory, "127.0.0.1:{port}", lambda port: [*words, "--port", str(port)])
