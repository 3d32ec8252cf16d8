"""The trick-taking card game FOOL as a reinforcement-learning environment."""
