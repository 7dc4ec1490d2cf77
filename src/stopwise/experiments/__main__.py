"""`python -m stopwise.experiments`: the same as `stopwise reproduce`."""

from stopwise.experiments import command

if __name__ == "__main__":
    command(prog_name="python -m stopwise.experiments")
