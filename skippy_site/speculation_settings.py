"""The settings of speculation: how the first model's answers are drafted.

A part of the environment (env.py), in a file of its own because there are many.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from inference.domain.speculation import MAX_DRAFT_TOKENS, SpeculationMode, SpeculationSettings
from skippy_site.lora_settings import LoraSettings


class DraftSettings(LoraSettings, frozen=True, kw_only=True):
    """See the module. (Structs have one base each, so the parts of the environment stand in a row.)"""

    speculation: Annotated[
        Literal["off", "prompt_lookup", "draft_model"],
        Meta(description="how answers are drafted where requests say nothing; changes how fast they come"),
    ] = "off"
    draft_model: Annotated[
        str,
        Meta(
            description="a smaller model of the same vocabulary that drafts: a GGUF file's path, or "
            "hf:org/repo/file.gguf; empty: none"
        ),
    ] = ""
    max_draft_tokens: Annotated[
        int, Meta(ge=1, le=MAX_DRAFT_TOKENS, description="tokens that are guessed at once, at most")
    ] = 8
    speculation_by_request: Annotated[bool, Meta(description="requests may choose how they are drafted")] = (
        True
    )

    def check_speculation(self) -> None:
        """Raises ValueError with one line that names the variable at fault."""
        if self.speculation == "draft_model" and not self.draft_model:
            raise ValueError("SKIPPY_SPECULATION: draft_model needs one, in SKIPPY_DRAFT_MODEL")

    def speculation_settings(self, draft_source: str) -> SpeculationSettings:
        """Of the first model; `draft_source` is SKIPPY_DRAFT_MODEL as it is written into its row."""
        return SpeculationSettings(
            mode=SpeculationMode(self.speculation),
            max_draft_tokens=self.max_draft_tokens,
            allows_requests=self.speculation_by_request,
            draft_source=draft_source,
        )
