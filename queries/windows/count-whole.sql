SELECT id, count(*) OVER (PARTITION BY shop) AS answer FROM sales
