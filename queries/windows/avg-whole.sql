SELECT id, avg(amount) OVER (PARTITION BY shop) AS answer FROM sales
