"""Work beside what is waited for: it begins when there is something to wait for, and what is left is left out."""

from __future__ import annotations

import threading

import pytest

from pypto_build.rules.machinery.background import BackgroundJobs


def test_nothing_is_done_before_there_is_something_to_wait_for() -> None:
    background, done = BackgroundJobs(1), list[int]()
    background.add(lambda: done.append(1))
    background.end()
    assert done == []


def test_without_threads_nothing_is_done() -> None:
    background, done = BackgroundJobs(0), list[int]()
    background.add(lambda: done.append(1))
    background.begin()
    background.add(lambda: done.append(2))
    background.end()
    assert done == []


def test_jobs_are_done_from_then_on_and_the_rest_is_left_out() -> None:
    background, done = BackgroundJobs(1), list[int]()
    begun, over = threading.Event(), threading.Event()

    def last() -> None:
        begun.set()
        over.wait(20)
        done.append(2)

    background.add(lambda: done.append(1))
    background.begin()
    background.add(last)
    background.add(lambda: done.append(3))
    assert begun.wait(20)
    threading.Timer(0.1, over.set).start()
    background.end()
    assert done == [1, 2]


def test_what_a_job_raises_is_heard() -> None:
    background, begun = BackgroundJobs(1), threading.Event()

    def fail() -> None:
        begun.set()
        raise ZeroDivisionError

    background.begin()
    background.add(fail)
    assert begun.wait(20)
    with pytest.raises(ZeroDivisionError):
        background.end()
