"""The command line; its commands lie in folders by topic."""
