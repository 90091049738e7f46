import signal
import subprocess
import sys
import textwrap

import pytest

from judgebench.runtime.files import atomic


def write_half(path):
    with atomic(path) as temporary:
        temporary.write_text("half a n")
        raise RuntimeError("in the middle")


@pytest.mark.parametrize("old", [None, "old"])
def test_failing_writer_leaves_what_was_there_and_nothing_else(tmp_path, old):
    path = tmp_path / "metrics.json"
    if old:
        path.write_text(old)
    with pytest.raises(RuntimeError, match="in the middle"):
        write_half(path)
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == ({"metrics.json": "old"} if old else {})


def test_temporary_lies_in_the_same_folder_so_that_the_rename_is_atomic(tmp_path):
    with atomic(tmp_path / "deep" / "a.txt") as temporary:
        assert temporary.parent == tmp_path / "deep"
        temporary.write_text("whole")
    assert (tmp_path / "deep" / "a.txt").read_text() == "whole"


def test_new_file_has_the_usual_permissions(tmp_path):
    (tmp_path / "usual").write_text("")
    with atomic(tmp_path / "a.txt") as temporary:
        temporary.write_text("")
    assert (tmp_path / "a.txt").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_kill_in_the_middle_of_writing_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    script = f"""
        import sys, time
        from pathlib import Path
        from judgebench.runtime.files import atomic
        with atomic(Path({str(path)!r})) as temporary, open(temporary, "w") as file:
            file.write("half")
            file.flush()
            print("writing", flush=True)
            time.sleep(60)
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "writing\n"
        writer.send_signal(signal.SIGKILL)
    assert path.read_text() == "old"
