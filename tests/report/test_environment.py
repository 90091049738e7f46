from __future__ import annotations

import subprocess

from judgebench.results.environment import code_version, describe_environment


def _git(folder, *arguments):
    identity = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "core.hooksPath=/dev/null"]
    done = subprocess.run(["git", "-C", folder, *identity, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_checkout_has_its_commit_and_says_whether_it_was_changed(tmp_path):
    package = tmp_path / "judgebench"
    package.mkdir()
    (package / "__init__.py").write_text("")
    _git(tmp_path, "init", "-q")
    _git(tmp_path, "add", ".")
    _git(tmp_path, "commit", "-q", "-m", "first")
    commit = _git(tmp_path, "rev-parse", "HEAD")
    assert code_version(package) == (commit, False)
    (package / "__init__.py").write_text("changed = 1")
    assert code_version(package) == (commit, True)


def test_installed_package_inside_a_strangers_repository_has_no_commit(tmp_path):
    package = tmp_path / ".venv" / "judgebench"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    _git(tmp_path, "init", "-q")
    _git(tmp_path, "commit", "-q", "--allow-empty", "-m", "a stranger's")
    assert code_version(package) == (None, None)


def test_environment_names_the_packages_that_matter():
    environment = describe_environment(device="cpu", model_fingerprints={}, seconds={}, tokens={})
    assert {"torch", "transformers", "lightning", "numpy", "scipy"} <= set(environment["packages"])
    assert environment["python"].startswith("3.")
