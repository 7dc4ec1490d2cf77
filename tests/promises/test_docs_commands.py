"""Every command line that README and docs show can be typed: commands, options, modules, scripts and targets exist."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])
if not (ROOT / "docs").is_dir():
    pytest.skip("the documentation is not here (an installed package?)", allow_module_level=True)


def lines(page):
    """Lines of shell blocks without their comments, and pieces of code inside sentences."""
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"^```(?:sh)?\n(.*?)^```", text, re.S | re.M)
    text = re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)
    inside = [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", text)]
    return [line.split("  #")[0].strip() for block in blocks for line in block.splitlines()] + inside


def shown(pattern, pages=PAGES):
    return sorted({found for page in pages for line in lines(page) for found in re.findall(pattern, line)})


def options(command):
    return {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}


def commands():
    import stopwise.cli
    from stopwise.experiments.command import reproduce

    return {**stopwise.cli.main.commands, "reproduce": reproduce}


@pytest.mark.parametrize("line", shown(r"^(?:python -m )?stopwise [a-z].*"))
def test_a_command_that_is_shown_has_its_options(line):
    name, *rest = line.removeprefix("python -m ").split()[1:]
    assert name in commands()
    asked = {word.strip("[]").split("=")[0] for word in rest if word.strip("[").startswith("--")}
    assert asked <= options(commands()[name]) | {"--help"}


OUR_OPTIONS = shown(r"^(--[a-z-]+)", [page for page in PAGES if page.name != "benchmarks.md"])
"""Benchmarks are scripts with options of their own."""


@pytest.mark.parametrize("option", OUR_OPTIONS)
def test_an_option_that_is_named_exists(option):
    assert any(option in options(command) for command in commands().values()) or option == "--help"


@pytest.mark.parametrize("module", shown(r"^python -m ([\w.]+)"))
def test_a_module_that_is_run_can_be_run(module):
    assert importlib.util.find_spec(f"{module}.__main__" if "." in module or module == "stopwise" else module)


@pytest.mark.parametrize("script", shown(r"python ((?:benchmarks|docs|examples)/\w+\.py)"))
def test_a_script_that_is_named_is_there(script):
    assert (ROOT / script).is_file()


@pytest.mark.parametrize("target", shown(r"^make ([a-z-]+)"))
def test_a_target_of_make_that_is_named_is_there(target):
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
