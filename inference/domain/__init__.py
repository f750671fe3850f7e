"""The words that all layers share. Standard library only; imports nothing else of this project."""
