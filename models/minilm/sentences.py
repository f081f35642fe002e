"""Sentences of the kind a bank's assistant meets: pairs that say the same, on subjects that differ."""

PAIRS: tuple[tuple[str, str], ...] = (
    ("My card was declined at the supermarket.", "The shop refused my bank card."),
    ("How do I change the address on my account?", "I have moved and need to update where I live."),
    ("I want to dispute a charge that I did not make.", "There is a payment on my statement that is not mine."),
    ("What is the interest rate for a home loan?", "How much do you charge for a mortgage?"),
    ("Please block my card, it was stolen.", "Someone took my card, it must be stopped at once."),
    ("When will my salary arrive?", "On which day is my pay booked to the account?"),
    ("I forgot the code of my card.", "I can no longer remember my PIN."),
    ("How can I send money to a friend abroad?", "I would like to make a transfer to another country."),
    ("The app closes as soon as I open it.", "Your application crashes when it starts."),
    ("Which papers do I need to open an account?", "What documents are required to become a customer?"),
    ("Is there a fee for withdrawing cash in Japan?", "What does it cost to use a cash machine in Tokyo?"),
    ("Can I raise the limit of my credit card?", "I need a higher spending limit."),
    ("The bridge was closed because of the storm.", "Heavy winds shut the crossing."),
    ("She plays the violin in an orchestra.", "The woman is a violinist in a symphony ensemble."),
    ("The cat sleeps on the warm windowsill.", "A kitten is napping by the sunny window."),
    ("Bread dough needs an hour to rise.", "Leave the loaf for sixty minutes before baking."),
    (
        "The payment could not be booked because the name of the recipient does not match the account number that you "
        "gave; please check both and send the order again before six in the evening.",
        "Your transfer was rejected: account number and beneficiary do not belong together. Correct them and repeat "
        "the order before 18:00.",
    ),
    (
        "Following the loss of my husband last month I need to know what becomes of our joint account, of the standing "
        "orders that run from it, and of the loan for the car that is in his name alone.",
        "My husband has died. Please tell me what happens to the account that we shared, its standing orders, and his "
        "car loan.",
    ),
)

TEXTS: tuple[str, ...] = tuple(text for pair in PAIRS for text in pair)

# Longer texts, so that more than one sequence bucket is used: letters of several of the sentences.
LETTERS: tuple[str, ...] = tuple(
    " ".join(TEXTS[(start + step) % len(TEXTS)] for step in range(length))
    for start, length in ((0, 3), (7, 4), (12, 6), (3, 8), (21, 5), (9, 10), (30, 12), (17, 16))
)
