"""The one door for people: password or provider, then the second factor, for console and admin alike.

django-allauth leads from step to step and asks for the password again; what is ours is how often somebody may
try (`attempts`), who must have a second factor (`second_factor`, `gate`), what is told of it (`events`), and
whom a provider may send (`oidc`).
"""
