"""Database migrations, in order. May import `roles` and the models' validators and fields."""
