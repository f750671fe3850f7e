"""Registers the site itself with Django: it holds the commands serve, doctor and first_run."""

from django.apps import AppConfig


class SiteConfig(AppConfig):
    name = "skippy_site"
    verbose_name = "Skippy"
