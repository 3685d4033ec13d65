SELECT id, count(*) OVER (PARTITION BY shop ORDER BY placed) AS answer FROM sales
