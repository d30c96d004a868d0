"""`python -m mha_viz`: the same as the `mha-viz` command."""

from mha_viz.cli.main import main

if __name__ == "__main__":
    main()
