SELECT id, avg(amount) OVER (PARTITION BY shop ORDER BY placed) AS answer FROM sales
