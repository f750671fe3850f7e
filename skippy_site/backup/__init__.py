"""What must survive, in one file, and back from it: `manage.py backup` and `manage.py restore`. No Django."""
