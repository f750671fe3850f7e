"""How the admin writes dates: as all other pages do."""
