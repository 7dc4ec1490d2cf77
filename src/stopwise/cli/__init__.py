"""The command line: stopwise fit, predict, compare, info, reproduce."""

import click

from stopwise.cli.app import Commands
from stopwise.cli.compare import compare
from stopwise.cli.fit import fit
from stopwise.cli.info import info
from stopwise.cli.predict import predict

_EPILOG = """Shell completion: eval "$(_STOPWISE_COMPLETE=bash_source stopwise)" in ~/.bashrc (zsh_source, fish_source
for other shells)."""


@click.group(
    name="stopwise",
    cls=Commands,
    commands=[fit, predict, compare, info],
    epilog=_EPILOG,
    invoke_without_command=True,
    no_args_is_help=False,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
)
@click.version_option(package_name="stopwise", prog_name="stopwise")
@click.pass_context
def main(context: click.Context) -> None:
    """Kernel regression that knows when to stop, and says why.

    \b
    stopwise fit data.csv --target price --out model.stopwise --report report.html
    stopwise predict model.stopwise new.csv --out predictions.csv
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
