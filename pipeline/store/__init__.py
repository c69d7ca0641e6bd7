"""The store: any ClickHouse by DSN, or the same engine embedded and served by one process on loopback."""
