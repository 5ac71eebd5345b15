"""Operations of `/api/v2/sync`."""
