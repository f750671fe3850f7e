"""What keys, users and teams have used, and whether one more request may begin."""
