"""Configurations of training runs (YAML); a package so that they are installed with fool_env."""
