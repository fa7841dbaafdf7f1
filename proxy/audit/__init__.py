"""Audit log of exchanges.

    exchange           the record of one request and its answer while it is served
    capture            the content of an exchange in memory, bounded to head and tail
    outcome            outcome and failed phase of an exchange, a client's disconnect included
    sampling           which exchanges keep their transcript, and how many failures per hour
    recorder           from the end of an exchange to the journal and the database
    exchange_row       the columns of an exchange's row
    bulk_insert        writes a batch of rows, transcripts, groups and sums in one transaction
    failure_groups     fingerprints of failures
    exchange_metrics   counts finished exchanges
    retention          deletes old rows daily
    journal            exchanges on disk until the database has them
    transcripts        stored content
    traffic            sums for the dashboard

May import `configuration`, the models and the packages below them.
"""
