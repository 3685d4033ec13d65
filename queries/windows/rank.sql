SELECT id, rank() OVER (PARTITION BY shop ORDER BY lot) AS answer FROM sales
