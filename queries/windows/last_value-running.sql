SELECT id, last_value(amount) OVER (PARTITION BY shop ORDER BY placed) AS answer FROM sales
