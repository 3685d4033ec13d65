SELECT id, max(amount) OVER (PARTITION BY shop) AS answer FROM sales
