"""``leakscope completion``: of words in a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from ..errors import BadInput
from ._shared import command


@command(
    examples=[
        ('eval "$(leakscope completion bash)"', "in ~/.bashrc"),
        ('eval "$(leakscope completion zsh)"', "in ~/.zshrc"),
        ("leakscope completion fish | source", "in ~/.config/fish/config.fish"),
    ]
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print what makes a shell complete commands, options and files."""
    completer = get_completion_class(shell)
    if completer is None:
        raise BadInput(f"no completion is known for {shell}")
    every_command = click.get_current_context().find_root().command
    click.echo(completer(every_command, {}, "leakscope", "_LEAKSCOPE_COMPLETE").source())
