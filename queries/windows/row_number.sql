SELECT id, row_number() OVER (PARTITION BY shop ORDER BY placed) AS answer FROM sales
