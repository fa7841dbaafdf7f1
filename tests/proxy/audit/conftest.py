import pytest


@pytest.fixture
def one_connection(db, monkeypatch):
    """Keep the connection open: it has the transaction of the test."""
    monkeypatch.setattr("proxy.audit.recorder.renew_connection", lambda: None)
