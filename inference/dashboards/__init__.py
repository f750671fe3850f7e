"""Pages of the console about usage: for operators everybody's, for everyone else his own."""
