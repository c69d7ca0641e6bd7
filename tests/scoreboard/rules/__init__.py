"""Holter and other people's rules, each as they define it, one a file."""
