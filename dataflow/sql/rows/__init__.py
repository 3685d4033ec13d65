"""Operations of SQL on rows, made of the operators of collections."""
