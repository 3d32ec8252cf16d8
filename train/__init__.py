"""Learners: self-play PPO, its configuration and its evaluation."""
