SELECT id, ntile(4) OVER (PARTITION BY shop ORDER BY placed) AS answer FROM sales
