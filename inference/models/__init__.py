"""Tables of inference. Columns, constraints and indexes only; rows are written by services."""

from inference.models.alert import Alert
from inference.models.generation import GenerationRecord, GenerationText, IdempotentRequest
from inference.models.maintenance import Maintenance
from inference.models.model_report import ModelReport
from inference.models.model_row import ModelAdapter, ModelName, ModelRow
from inference.models.price import ModelPrice
from inference.models.usage import (
    EventBucket,
    SpanLatency,
    SpanUsage,
    StoredEvent,
    TeamLatencyBucket,
    TeamUsageBucket,
    UsageBucket,
    UsageDay,
    UsageMonth,
    UsagePending,
)

__all__ = [
    "Alert",
    "EventBucket",
    "GenerationRecord",
    "GenerationText",
    "IdempotentRequest",
    "Maintenance",
    "ModelAdapter",
    "ModelName",
    "ModelPrice",
    "ModelReport",
    "ModelRow",
    "SpanLatency",
    "SpanUsage",
    "StoredEvent",
    "TeamLatencyBucket",
    "TeamUsageBucket",
    "UsageBucket",
    "UsageDay",
    "UsageMonth",
    "UsagePending",
]
