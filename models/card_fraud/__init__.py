"""The card-fraud model: a recurrent network over a card's last transactions."""
