SELECT id, min(amount) OVER (PARTITION BY shop) AS answer FROM sales
