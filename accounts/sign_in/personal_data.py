"""What is kept of how a person signs in: second factors, links to a provider, failed tries."""

from __future__ import annotations

from typing import Any

from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount

from accounts.models import SignInAttempts
from accounts.personal_data import DataPage, DataSubject
from accounts.sign_in.events import sessions_end


class SignInHolder:
    """Without secrets, in what is exported."""

    name = "sign_in"

    def export_page(self, subject: DataSubject, after: Any) -> DataPage:
        factors = Authenticator.objects.filter(user_id=subject.user_id)
        links = SocialAccount.objects.filter(user_id=subject.user_id)
        return DataPage(
            [
                *factors.order_by("pk").values("type", "created_at", "last_used_at"),
                *links.order_by("pk").values("provider", "uid", "date_joined", "last_login", "extra_data"),
            ]
        )

    def erase(self, subject: DataSubject) -> int:
        kept = (Authenticator, SocialAccount, SignInAttempts)
        num_rows = sum(int(model.objects.filter(user_id=subject.user_id).delete()[0]) for model in kept)
        return num_rows + sessions_end(subject.user_id)
