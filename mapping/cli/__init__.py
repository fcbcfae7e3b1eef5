"""The subcommands of ``einrtl`` that analyse and map cascades."""
