SELECT id, sum(amount) OVER (PARTITION BY shop ORDER BY placed) AS answer FROM sales
