from django.db import migrations

# What the groups of roles had in the versions that did not yet write down which groups those are: for each table
# what administrator, operator and auditor might do.
_ALL, _LOOK, _NONE = frozenset({"add", "change", "delete", "view"}), frozenset({"view"}), frozenset()
_WRITTEN, _RULED, _READ, _PRIVATE = (_ALL, _ALL, _LOOK), (_ALL, _LOOK, _LOOK), (_LOOK,) * 3, (_LOOK, _NONE, _NONE)
_RIGHTS = {
    **dict.fromkeys(("accounts.apikey", "accounts.team", "accounts.userpolicy"), _WRITTEN),
    **dict.fromkeys(("inference.modeladapter", "inference.modelprice", "inference.modelrow"), _WRITTEN),
    **dict.fromkeys(("auth.group", "hooks.hookpolicy", "hooks.webhook"), _RULED),
    **dict.fromkeys(("accounts.administrativechange", "accounts.limitcounter", "admin.logentry"), _READ),
    **dict.fromkeys(("auth.permission", "inference.alert", "inference.generationrecord"), _READ),
    **dict.fromkeys(("inference.generationtext", "inference.idempotentrequest"), _PRIVATE),
    "auth.user": (_ALL, _ALL - {"delete"}, _LOOK),
}
_ROLES = ("administrator", "operator", "auditor")


def adopt_groups(apps, schema_editor):
    """Groups that have exactly a role's rights are the role's; others of that name are somebody's own, and the
    next `post_migrate` puts them aside."""
    using = schema_editor.connection.alias
    groups = apps.get_model("auth", "Group").objects.using(using)
    made = apps.get_model("accounts", "RoleGroup").objects.using(using)
    for group in groups.filter(name__in=[*_ROLES, "key owner"]):
        has = {}
        for permission in group.permissions.select_related("content_type"):
            label = f"{permission.content_type.app_label}.{permission.content_type.model}"
            has.setdefault(label, set()).add(permission.codename.partition("_")[0])
        if group.name == "key owner":
            is_role = not has
        else:
            place = _ROLES.index(group.name)
            is_role = all(has.get(label, set()) == rights[place] for label, rights in _RIGHTS.items())
        if is_role:
            made.create(role=group.name, group=group)


class Migration(migrations.Migration):

    dependencies = [
        ("accounts", "0014_password_links"),
        ("contenttypes", "0002_remove_content_type_name"),
    ]

    operations = [migrations.RunPython(adopt_groups, migrations.RunPython.noop, elidable=True)]
