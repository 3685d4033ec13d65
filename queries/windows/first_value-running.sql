SELECT id, first_value(amount) OVER (PARTITION BY shop ORDER BY placed) AS answer FROM sales
