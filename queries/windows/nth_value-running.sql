SELECT id, nth_value(amount, 3) OVER (PARTITION BY shop ORDER BY placed) AS answer FROM sales
