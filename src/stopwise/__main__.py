"""python -m stopwise: the command line."""

from stopwise.cli import main

if __name__ == "__main__":
    main(prog_name="stopwise")
