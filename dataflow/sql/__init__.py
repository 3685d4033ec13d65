"""SQL: queries given as text become plans. Tables are declared in SQL, or by the schemas of Arrow and Parquet."""
