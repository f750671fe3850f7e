"""What all pages of the admin have in common: an address that cannot be meant is passed over, where Django's
own pages fail with it."""

from __future__ import annotations

from typing import Any

from django.contrib.admin.views.main import ERROR_FLAG
from django.core.exceptions import FieldDoesNotExist, ValidationError
from django.db.models import DateTimeField
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from unfold.admin import ModelAdmin


class PageAdmin(ModelAdmin):
    """The theme's, for every model of ours."""

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        return super().get_object(request, object_id, from_field or None)

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        if any("\0" in value for values in request.GET.lists() for value in values[1]):
            # As for other filters that cannot be meant; a database takes no such text.
            return HttpResponseRedirect(f"{request.path}?{ERROR_FLAG}=1")
        return super().changelist_view(request, extra_context)

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        """What the address says of a new object, but for relations to what cannot be an id, and times, whose
        fields take no text."""
        given: dict[str, Any] = super().get_changeform_initial_data(request)
        return {name: value for name, value in given.items() if self._can_be_meant(name, value)}

    def _can_be_meant(self, name: str, value: Any) -> bool:
        try:
            field = self.opts.get_field(name)
        except FieldDoesNotExist:
            return True
        if isinstance(field, DateTimeField):
            return False
        related = field.related_model
        if related is None or isinstance(related, str):
            return True
        key = related._meta.pk
        try:
            for one in value if isinstance(value, list) else [value]:
                key.run_validators(key.to_python(one))
        except ValidationError:
            return False
        return True
