"""Who may make a link for whom: whoever has a link becomes that user, so it is never one with more rights.

An invitation goes to somebody who is new, and may be made by who may add users. A password reset hands over
an account that somebody uses, with the text that is kept under it, so it belongs to who may set passwords. A
key makes invitations alone, and for key owners alone, so that no key makes an administrator or takes over an
account.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.conf import settings

from accounts.models import ApiKey
from accounts.roles import Role, may_change_account, may_manage_roles, may_open_staff_page

_INVITES = ("auth.add_user", "accounts.add_passwordlink")


@dataclass(frozen=True, slots=True)
class LinkMaker:
    """`user` is None where a key with the scope `keys` asks: it has nothing of its user's role."""

    user: Any | None = None

    @property
    def may_invite_anybody(self) -> bool:
        user = self.user
        return user is None or all(may_open_staff_page(user, permission) for permission in _INVITES)

    @property
    def manages_roles(self) -> bool:
        return self.user is not None and may_manage_roles(self.user)

    @property
    def roles(self) -> tuple[Role, ...]:
        """What he may invite somebody to be."""
        return tuple(Role) if self.manages_roles else (Role.KEY_OWNER,)

    def may_invite(self, account: Any) -> bool:
        """Whether he may invite this user, who is there already: without managing roles only one who is not
        staff and whose account nobody has used."""
        if not self.may_invite_anybody or not account.is_active:
            return False
        if self.manages_roles:
            return self._has_his_rights(account)
        return not (account.is_staff or account.is_superuser) and is_unused(account)

    def may_reset(self, account: Any) -> bool:
        return bool(account.is_active) and self.manages_roles and self._has_his_rights(account)

    def may_revoke(self, account: Any) -> bool:
        """A link that is gone gives nobody anything; but staff's are left to who manages staff."""
        user = self.user
        return self.may_invite_anybody and (
            not (account.is_staff or account.is_superuser)
            if user is None
            else may_change_account(user, account)
        )

    def may_set_address(self, account: Any) -> bool:
        """Whether he may change at which address this user is. Where that is what a provider's people are
        found by, it says who becomes this user, as a link does."""
        if settings.PROVIDER_LINKS_BY != "email":
            return True
        if self.manages_roles:
            return self._has_his_rights(account)
        return not (account.is_staff or account.is_superuser) and is_unused(account)

    def _has_his_rights(self, account: Any) -> bool:
        user = self.user
        if user is None or user.is_superuser:
            return user is not None
        is_his = may_change_account(user, account)
        return is_his and account.get_all_permissions() <= user.get_all_permissions()


def is_unused(account: Any) -> bool:
    """Whether nobody has ever signed in as this user or used a key of his, so that nothing is kept of
    him."""
    return (
        not account.has_usable_password()
        and account.last_login is None
        and not ApiKey.objects.filter(user=account, last_used_at__isnull=False).exists()
    )
