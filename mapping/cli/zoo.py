"""The command ``einrtl zoo``: the page of packaged cascades."""

from __future__ import annotations

import click

from mapping.listings import zoo_page

__all__ = ["zoo"]


@click.command()
def zoo() -> None:
    """Print the page of packaged cascades in Markdown: einrtl zoo > docs/zoo.md makes it anew."""
    click.echo(zoo_page(), nl=False)
