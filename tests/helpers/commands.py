"""Commands run inside the test's own process, and what they print checked against its schema."""

import json
from pathlib import Path
from unittest import mock

import jsonschema
from click.testing import CliRunner

from stopwise.cli import main

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"


def run(*arguments, patience=3600):
    """The command's output and exit code; a progress line comes after `patience` seconds, so none on a slow machine."""
    with mock.patch("stopwise.cli.output.PATIENCE", patience):
        return invoke(arguments)


def invoke(arguments):
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    return result


def run_json(command, *arguments):
    """The object a command prints, checked against its schema."""
    result = run(command, *arguments, "--json")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    printed = json.loads(result.stdout)
    schema = json.loads((SCHEMAS / f"{command}.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(printed, schema, jsonschema.Draft202012Validator)
    return printed
